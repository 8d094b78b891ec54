"""Checks a request to AWS Batch against the model of its API that botocore carries.

usage: aws_batch.py OPERATION < REQUEST.json

Fails on a field that is not documented, one that is missing, one of another type, and on a
value that its enumeration does not have.
"""

import json
import sys

import botocore.session
from botocore.validate import ParamValidator


def strangers(shape, value, path):
    """The values that are none of their enumeration's, by path."""
    if shape.type_name == "structure":
        members = shape.members.items()
        return [
            stranger
            for name, member in members
            if name in value
            for stranger in strangers(member, value[name], f"{path}.{name}")
        ]
    if shape.type_name == "list":
        return [
            stranger
            for index, item in enumerate(value)
            for stranger in strangers(shape.member, item, f"{path}[{index}]")
        ]
    if shape.type_name == "string" and shape.enum and value not in shape.enum:
        return [f"{path}: {value!r} is none of {shape.enum}"]
    return []


def main():
    operation = sys.argv[1]
    request = json.load(sys.stdin)
    service = botocore.session.get_session().get_service_model("batch")
    shape = service.operation_model(operation).input_shape
    report = ParamValidator().validate(request, shape)
    if report.has_errors():
        sys.exit(f"{operation}: {report.generate_report()}")
    wrong = strangers(shape, request, operation)
    if wrong:
        sys.exit("\n".join(wrong))


main()
