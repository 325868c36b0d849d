"""Talk to the socket application as a browser would, without a server between."""

import json

from asgiref.testing import ApplicationCommunicator


class Socket(ApplicationCommunicator):
    def __init__(self, application, path, headers):
        path, _, query = path.partition("?")
        scope = {
            "type": "websocket",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "subprotocols": [],
            "client": ["127.0.0.1", 1],
            "server": ["testserver", 80],
        }
        super().__init__(application, scope)

    async def connect(self):
        """Return whether the socket was accepted."""
        await self.send_input({"type": "websocket.connect"})
        return (await self.receive_output(10))["type"] == "websocket.accept"

    async def say(self, text):
        await self.send_input({"type": "websocket.receive", "text": text})

    async def hear(self):
        message = await self.receive_output(10)
        assert message["type"] == "websocket.send", message
        return json.loads(message["text"])

    async def closed(self):
        """Wait for the close and return its code; what comes before is passed over."""
        while True:
            message = await self.receive_output(10)
            if message["type"] == "websocket.close":
                return message["code"]

    async def leave(self):
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(10)
