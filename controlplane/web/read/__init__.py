"""What each page needs, read once and in few queries.

A view and the publisher of a live fragment use the same function, so a page
looks the same whether it was opened a moment ago or has been open all night.
"""
