"""Bodies of each format as rows, by the libraries of the extra `schemas`: jsonschema-rs, fastavro,
protobuf. Only this package imports them; each is loaded with the first schema of its format.

Start with `row_reader`.
"""
