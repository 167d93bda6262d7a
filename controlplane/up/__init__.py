"""`manage.py up`: the whole stack on one machine. No module here imports Django."""
