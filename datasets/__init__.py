"""From a spool or an import to a data set: sessions, prefix metadata, Parquet, statistics."""
