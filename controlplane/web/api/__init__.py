"""The REST API for operators under `/api/v1/`.

It is a thin door: authenticate, authorise, call one action or query, show the
result. What agents use under the same prefix (ingest, commands, enrol, ping,
token/rotate) belongs to the ingest application and never reaches this one.
"""
