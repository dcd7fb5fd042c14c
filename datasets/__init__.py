"""From a spool or an import to a data set, and back: sessions, prefix metadata, Parquet, statistics."""
