"""The data set on disk: schema, writer, reader."""
