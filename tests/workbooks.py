"""Workbooks as small as they can be, written by hand."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"/>',
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
    f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{{sheets}}</sheets>'
    "</workbook>",
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{{relations}}'
    "</Relationships>",
    "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><cellXfs><xf numFmtId="0"/>'
    '<xf numFmtId="22"/></cellXfs></styleSheet>',
}


def write_workbook(frame: pd.DataFrame, path: Path) -> None:
    """Write a workbook with the columns and rows of a frame."""
    write_sheet([list(frame.columns), *frame.itertuples(index=False)], path)


def write_sheet(rows: Sequence[Sequence[object]], path: Path) -> None:
    """Write a workbook of one sheet."""
    write_sheets({"Sheet1": rows}, path)


def write_sheets(sheets: Mapping[str, Sequence[Sequence[object]]], path: Path) -> None:
    """Write a workbook with the rows of each sheet."""
    listed = relations = ""
    with zipfile.ZipFile(path, "w") as archive:
        for number, (name, rows) in enumerate(sheets.items(), start=1):
            file = f"worksheets/sheet{number}.xml"
            listed += f'<sheet name="{name}" sheetId="{number}" r:id="r{number}"/>'
            relations += (
                f'<Relationship Id="r{number}" Type="{_OFFICE}/worksheet" Target="{file}"/>'
            )
            body = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
            content = f'<worksheet xmlns="{_MAIN}"><sheetData>{body}</sheetData></worksheet>'
            archive.writestr(f"xl/{file}", content)
        relations += f'<Relationship Id="s" Type="{_OFFICE}/styles" Target="styles.xml"/>'
        for name, text in _PARTS.items():
            archive.writestr(name, text.format(sheets=listed, relations=relations))


def _cell(value: object) -> str:
    """Return a cell; days are numbers since 1899."""
    if isinstance(value, pd.Timestamp):
        days = (value - pd.Timestamp("1899-12-30")) / pd.Timedelta(days=1)
        return f'<c s="1"><v>{days}</v></c>'
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    return "<c/>" if value is None or pd.isna(value) else f"<c><v>{value}</v></c>"  # type: ignore[call-overload]
