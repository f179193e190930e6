"""Programs that studies run in processes of their own."""
