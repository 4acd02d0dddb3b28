"""The generated parts of the reference: commands, recipe fields and the HTTP API, from the code.

A page asks for one by a comment: `<!-- generated: commands -->`.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

MARK = re.compile(r"<!-- generated: (\w+) -->")
GROUPS = {  # of the Python API, by the package that a public name lives in
    "Data and recipes": ("panel", "splits", "recipe", "synthetic"),
    "Dependency graph": ("graph",),
    "Estimators": ("estimators",),
    "Evaluation and explanations": ("evaluation", "explain"),
}
TIGHT = {"Ge": "≥", "Gt": ">", "Le": "≤", "Lt": "<"}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with its generated parts filled in."""
    return MARK.sub(lambda match: PARTS[match[1]](), markdown)


def python() -> str:
    """The public names with their docstrings, which mkdocstrings fills in."""
    import forecaster  # noqa: PLC0415

    parts = []
    for title, packages in GROUPS.items():
        names = [name for name in sorted(forecaster.__all__) if _package(name) in packages]
        parts += [f"## {title}", *map(_public, names)]
    return "\n\n".join(parts)


def _public(name: str) -> str:
    """Ask mkdocstrings for a public name; what estimators share is shown once, at their base."""
    import forecaster  # noqa: PLC0415

    thing = getattr(forecaster, name)
    shared = isinstance(thing, type) and issubclass(thing, forecaster.Estimator)
    hidden = shared and thing is not forecaster.Estimator
    return f"::: forecaster.{name}" + ("\n    options:\n      members: false" if hidden else "")


def commands() -> str:
    """Every command with its arguments and options."""
    from typer.main import get_command  # noqa: PLC0415 (builds load only what a page needs)

    from forecaster.cli.app import app  # noqa: PLC0415

    parts = []
    for name, command in _walk_commands(get_command(app), "forecaster"):
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
        usage = [name, *(_argument(p) for p in arguments), *(["[OPTIONS]"] if options else [])]
        parts += [f"## `{name}`", command.help or "", f"```text\n{' '.join(usage)}\n```"]
        rows = [(_argument(p), _type_name(_annotation(p)), "", p.help) for p in arguments]
        rows += [(", ".join(p.opts), _option_type(p), _option_default(p), p.help) for p in options]
        if rows:
            parts.append(_table(("argument or option", "value", "default", "meaning"), rows))
    return "\n\n".join(parts)


def recipe() -> str:
    """Every field of a recipe with its type, default, range and meaning."""
    from forecaster.recipe import PRESETS, Recipe  # noqa: PLC0415

    own = [
        (name, _type_name(field.annotation), _default(field), _range(field), field.description)
        for name, field in Recipe.model_fields.items()
        if _section(field) is None
    ]
    head = ("key", "type", "default", "range", "meaning")
    parts = ["## Top of the file", _table(head, own)]
    for name, field in Recipe.model_fields.items():
        if (section := _section(field)) is not None:
            parts += _sections(name, section)
    parts += ["## What a preset changes", "Keys that a recipe gives itself win over its preset."]
    rows = [
        (preset, f"{section}.{key}", repr(value))
        for preset, sections in PRESETS.items()
        for section, values in sections.items()
        for key, value in values.items()
    ]
    return "\n\n".join([*parts, _table(("preset", "key", "value"), rows)])


def http() -> str:
    """Every endpoint and schema of the service, from its OpenAPI document."""
    document = openapi()
    parts = ["## Endpoints"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += _operation(path, method, operation)
    parts.append("## Schemas")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts += [f"### {name} {{ #schema-{name.lower()} }}", schema.get("description", "")]
        required = schema.get("required", [])
        rows = [
            (key, _schema(field), "yes" if key in required else "", _meaning(name, key, field))
            for key, field in schema.get("properties", {}).items()
        ]
        if rows:
            head = ("field", "type", "always there", "meaning")
            parts.append(_table(head, rows))
    return "\n\n".join(parts)


def _meaning(schema: str, key: str, field: dict[str, Any]) -> str:
    """The description of a field, or the comment beside it in the source."""
    from forecaster.serve.data.store import Receipt  # noqa: PLC0415
    from forecaster.serve.http import schemas  # noqa: PLC0415
    from forecaster.serve.http.inference import endpoints, tensors  # noqa: PLC0415

    if "description" in field:
        return str(field["description"])
    modules = (schemas, endpoints, tensors)
    model = next((getattr(m, schema) for m in modules if hasattr(m, schema)), Receipt)
    for kind in (each for each in model.__mro__[:2] if each is not object):
        if found := re.search(rf"^    {key}: .*  # (.+)$", inspect.getsource(kind), re.MULTILINE):
            return found[1]
    return ""


def openapi() -> dict[str, Any]:
    """The OpenAPI document of the service; no model or data is needed for it."""
    from forecaster.serve.forecasting.engine import Engine  # noqa: PLC0415
    from forecaster.serve.http.app import create_app  # noqa: PLC0415

    app: Any = create_app(Engine.__new__(Engine))  # never asked: only its routes are read
    while not hasattr(app, "openapi_schema"):  # inside what limits requests
        app = app.app
    document: dict[str, Any] = app.openapi_schema
    return document


PARTS: dict[str, Callable[[], str]] = {
    "python": python,
    "commands": commands,
    "recipe": recipe,
    "http": http,
}


def _package(name: str) -> str:
    import forecaster  # noqa: PLC0415

    return str(getattr(forecaster, name).__module__).split(".")[1]


def _walk_commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The command and its subcommands in the order of the help; hidden ones are left out."""
    yield name, command
    for child, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _walk_commands(inner, f"{name} {child}")


def _argument(param: Any) -> str:
    text = (param.metavar or param.name.upper()) + ("…" if param.nargs == -1 else "")
    return text if param.required else f"[{text}]"


def _annotation(param: Any) -> Any:
    return param.type_descriptor.annotation


def _option_type(param: Any) -> str:
    if param.is_flag:
        return "flag"
    return _type_name(_annotation(param)) + (", may be repeated" if param.multiple else "")


def _option_default(param: Any) -> str:
    if param.required:
        return "required"
    return "" if param.default in (None, False) else str(param.default)


def _sections(name: str, model: type[BaseModel]) -> Iterator[str]:
    """A section of the recipe, then the sections inside it."""
    yield f"## `[{name}]`"
    yield model.__doc__ or ""
    rows, inner = [], []
    for key, field in model.model_fields.items():
        section = _section(field)
        if section is not None:
            inner.append((f"{name}.{key}", section))
        kind = f"list of [[{name}.{key}]]" if section else _type_name(field.annotation)
        rows.append((key, kind, _default(field), _range(field), field.description))
    yield _table(("key", "type", "default", "range", "meaning"), rows)
    for path, section in inner:
        yield from _sections(f"[{path}]", section)


def _section(field: FieldInfo) -> type[BaseModel] | None:
    """The model inside a field: of a section, an optional one, or a list of them."""
    found = [kind for kind in _flatten(field.annotation) if isinstance(kind, type)]
    return next((kind for kind in found if issubclass(kind, BaseModel)), None)


def _flatten(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in get_args(annotation):
        yield from _flatten(inner)


def _type_name(annotation: Any) -> str:
    """A type as a reader of a recipe or a command knows it."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _type_name(inside[0])
    if origin in (Union, UnionType):
        return " or ".join(_type_name(kind) for kind in inside if kind is not type(None))
    if origin is Literal:
        return " or ".join(f'"{value}"' for value in inside)
    if origin in (tuple, list):
        kinds = [kind for kind in inside if kind is not Ellipsis]
        if origin is list or len(inside) > len(kinds):
            return f"list of {_type_name(kinds[0])}"
        return f"[{', '.join(_type_name(kind) for kind in kinds)}]"
    names = {str: "text", int: "integer", float: "number", bool: "true or false"}
    return names.get(annotation) or getattr(annotation, "__name__", str(annotation)).lower()


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default is None:
        return "none"
    if isinstance(default, tuple) and default and isinstance(default[0], BaseModel):
        return "; ".join(
            " ".join(f"{key}={value}" for key, value in dict(part).items()) for part in default
        )
    if isinstance(default, bool | str):
        return str(default).lower() if isinstance(default, bool) else f'"{default}"'
    return str(list(default) if isinstance(default, tuple) else f"{default:g}")


def _range(field: FieldInfo) -> str:
    """The limits of a field, such as ≥ 0, < 1."""
    limits = [
        f"{TIGHT[type(part).__name__]} {getattr(part, type(part).__name__.lower()):,g}"
        for part in field.metadata
        if type(part).__name__ in TIGHT
    ]
    lengths = {type(part).__name__: part for part in field.metadata}
    if "MinLen" in lengths:
        limits.append(f"at least {lengths['MinLen'].min_length}")
    if "MaxLen" in lengths:
        limits.append(f"at most {lengths['MaxLen'].max_length} of them")
    return ", ".join(limits)


def _operation(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`"
    yield operation.get("description") or operation.get("summary", "")
    rows = [
        (
            param["name"],
            f"{_schema(param['schema'])}{_limits(param['schema'])}",
            "required" if param.get("required") else str(param["schema"].get("default", "")),
            _described(param, param["schema"], *param["schema"].get("anyOf", [])),
        )
        for param in operation.get("parameters", [])
    ]
    if rows:
        head = ("parameter", "type", "default", "meaning")
        yield _table(head, rows)
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Body, `{media}`: {_schema(content['schema'])}."
    refusals = []
    for code, answer in operation["responses"].items():
        content = answer.get("content", {})
        if "application/problem+json" in content:
            refusals.append(f"`{code}`")
            continue
        kinds = [
            f"`{media}`: {_schema(part.get('schema', {}))}" for media, part in content.items()
        ]
        yield f"Status `{code}`: {', or '.join(kinds) or 'no body'}."
    if refusals:
        yield f"Errors: {', '.join(refusals)}, each with [ProblemDetails](#schema-problemdetails)."


def _described(*parts: dict[str, Any]) -> str:
    return next((part["description"] for part in parts if "description" in part), "")


def _schema(schema: dict[str, Any]) -> str:  # noqa: PLR0911 (one for each kind of schema)
    """A JSON schema in a few words, linked to the schemas of this page."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#schema-{name.lower()})"
    if choices := schema.get("anyOf", schema.get("oneOf")):
        return " or ".join(_schema(choice) for choice in choices)
    if "enum" in schema:
        return " or ".join(f'"{value}"' for value in schema["enum"])
    if "const" in schema:
        return f'"{schema["const"]}"'
    if schema.get("type") == "array":
        return f"list of {_schema(schema.get('items', {}))}"
    if isinstance(extra := schema.get("additionalProperties"), dict) and extra:
        return f"object of {_schema(extra)}"
    return str(schema.get("type", "any"))


def _limits(schema: dict[str, Any]) -> str:
    inside = [schema, *schema.get("anyOf", [])]
    names = {"minimum": "≥", "maximum": "≤", "minLength": "length ≥", "maxLength": "length ≤"}
    pairs = [(part, key) for part in inside for key in names if key in part]
    limits = [f"{names[key]} {part[key]:,}" for part, key in pairs]
    return f" ({', '.join(limits)})" if limits else ""


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A Markdown table; the first column holds names, shown as code."""
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for row in rows:
        cells = [" ".join(str(cell or "").split()).replace("|", r"\|") for cell in row]
        lines.append(f"| `{cells[0]}` | {' | '.join(cells[1:])} |")
    return "\n".join(lines)
