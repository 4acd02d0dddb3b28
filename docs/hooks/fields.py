"""Lists the fields of a dataclass with the comments beside them, under its docstring."""

import re
from typing import Any

from griffe import Class, Extension

COMMENT = re.compile(r"  # (?!noqa|type:)(.+)$")


class FieldComments(Extension):
    """Adds a section `Attributes` to docstrings of classes whose fields have comments."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """Read the comments on the lines of each public attribute."""
        rows = []
        for attribute in filter(lambda member: member.is_attribute, cls.members.values()):
            found = [COMMENT.search(line) for line in attribute.lines]
            text = " ".join(match[1] for match in found if match)
            if text and not attribute.name.startswith("_") and attribute.docstring is None:
                rows.append(f"    {attribute.name}: {text}")
        if rows and cls.docstring is not None:
            cls.docstring.value += "\n\nAttributes:\n" + "\n".join(rows)
