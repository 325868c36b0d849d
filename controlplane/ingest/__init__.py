"""The raw ASGI application that agents talk to, beside Django's."""
