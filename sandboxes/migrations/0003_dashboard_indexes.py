from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Without a lock: a run may go on meanwhile."""

    atomic = False

    dependencies = [
        ("sandboxes", "0002_dashboard"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="sandbox",
            index=models.Index(
                fields=["attempt_id", "-id"], include=["driver"], name="sandbox_attempt"
            ),
        ),
    ]
