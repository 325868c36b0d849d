"""The event log in SQL: Django cannot declare partitions or multiranges."""

from django.db import migrations, models

CREATE = """
CREATE SEQUENCE events_event_id;
CREATE TABLE events_event (
    id bigint NOT NULL DEFAULT nextval('events_event_id'),
    received_at timestamptz NOT NULL,
    node text NOT NULL,
    incarnation text NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    kind text NOT NULL,
    run text,
    attempt integer,
    rank integer,
    data jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (received_at, id)
) PARTITION BY RANGE (received_at);
CREATE TABLE events_event_default PARTITION OF events_event DEFAULT;
CREATE INDEX events_event_run ON events_event (run, id) WHERE run IS NOT NULL;
CREATE INDEX events_event_node ON events_event (node, id);
CREATE INDEX events_event_fleet ON events_event (id) WHERE run IS NULL;
CREATE TABLE events_stream (
    node text NOT NULL,
    incarnation text NOT NULL,
    base bigint NOT NULL,
    seen int8multirange NOT NULL,
    identity text NOT NULL DEFAULT '',
    holder boolean NOT NULL DEFAULT false,
    superseded boolean NOT NULL DEFAULT false,
    first_seen_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    PRIMARY KEY (node, incarnation)
);
CREATE UNIQUE INDEX events_stream_holder ON events_stream (node) WHERE holder;
"""
DROP = "DROP TABLE events_event; DROP SEQUENCE events_event_id; DROP TABLE events_stream;"


STATE = [
    migrations.CreateModel(
        name="Event",
        fields=[
            ("pk", models.CompositePrimaryKey("received_at", "id", blank=True, editable=False, primary_key=True, serialize=False)),
            ("id", models.BigIntegerField()),
            ("received_at", models.DateTimeField()),
            ("node", models.TextField()),
            ("incarnation", models.TextField()),
            ("seq", models.BigIntegerField()),
            ("at_ms", models.BigIntegerField(help_text="the sender's clock")),
            ("kind", models.TextField()),
            ("run", models.TextField(null=True)),
            ("attempt", models.IntegerField(null=True)),
            ("rank", models.IntegerField(null=True)),
            ("data", models.JSONField(default=dict)),
        ],
        options={"db_table": "events_event"},
    ),
    migrations.CreateModel(
        name="Stream",
        fields=[
            ("pk", models.CompositePrimaryKey("node", "incarnation", blank=True, editable=False, primary_key=True, serialize=False)),
            ("node", models.TextField()),
            ("incarnation", models.TextField()),
            ("base", models.BigIntegerField(help_text="first number of the first batch that came")),
            ("identity", models.TextField(default="", help_text="digest of the machine that said hello")),
            ("holder", models.BooleanField(default=False, help_text="speaks for the node's name now")),
            ("superseded", models.BooleanField(default=False, help_text="a newer life has said hello")),
            ("first_seen_at", models.DateTimeField()),
            ("last_seen_at", models.DateTimeField()),
        ],
        options={"db_table": "events_stream"},
    ),
]


class Migration(migrations.Migration):
    """Create the partitioned table and the table of received sequence numbers."""

    initial = True
    operations = [
        migrations.SeparateDatabaseAndState([migrations.RunSQL(CREATE, DROP)], STATE),
    ]
