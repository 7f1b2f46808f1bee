"""Bodies of each format as rows, by the libraries of the extra `schemas`: jsonschema-rs, fastavro,
protobuf. Nothing else imports these, and each is loaded when a schema of its format is first used.

Start with `row_reader`.
"""
