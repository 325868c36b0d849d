"""The database itself refuses to change or forget what was told."""

from django.db import migrations

REFUSE = """
    CREATE FUNCTION chronicle_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'the chronicle is append-only: write a correction instead'
            USING ERRCODE = 'restrict_violation';
    END $$;

    CREATE TRIGGER chronicle_entry_append_only BEFORE UPDATE OR DELETE ON chronicle_entry
        FOR EACH ROW EXECUTE FUNCTION chronicle_refuse_change();
    CREATE TRIGGER chronicle_stream_stays BEFORE DELETE ON chronicle_stream
        FOR EACH ROW EXECUTE FUNCTION chronicle_refuse_change();
"""

ALLOW = """
    DROP TRIGGER chronicle_stream_stays ON chronicle_stream;
    DROP TRIGGER chronicle_entry_append_only ON chronicle_entry;
    DROP FUNCTION chronicle_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("chronicle", "0001_initial")]
    operations = [migrations.RunSQL(REFUSE, ALLOW)]
