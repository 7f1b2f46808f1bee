"""The only room that knows deltalake and pyarrow: the journal, `topic_log`, and the restart."""
