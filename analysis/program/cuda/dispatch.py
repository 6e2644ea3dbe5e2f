"""Which function lowers which node kind: the one table of the frontend."""

from __future__ import annotations

from stitchcuda.analysis.program.cuda import branches, calls, lambdas, names, statements, switches
from stitchcuda.analysis.program.cuda import expressions as e
from stitchcuda.analysis.program.cuda.context import EXPRESSIONS, STATEMENTS, ExprHandler, StmtHandler
from stitchcuda.analysis.program.cuda.grammar import kind

_EXPRESSIONS: dict[str, ExprHandler] = {
    "identifier": names.identifier,
    "field_identifier": names.plain_name,
    "type_identifier": names.plain_name,
    "namespace_identifier": names.plain_name,
    "operator_name": names.plain_name,
    "this": names.this,
    "qualified_identifier": names.qualified,
    "template_function": names.template_function,
    "number_literal": names.number,
    "string_literal": names.string,
    "raw_string_literal": names.string,
    "user_defined_literal": names.number,
    "concatenated_string": names.concatenated,
    "char_literal": names.character,
    "true": names.true,
    "false": names.false,
    "null": names.null,
    "parenthesized_expression": e.parenthesized,
    "binary_expression": e.binary,
    "comma_expression": e.comma,
    "unary_expression": e.unary,
    "pointer_expression": e.pointer,
    "update_expression": e.update,
    "assignment_expression": e.assignment,
    "conditional_expression": e.conditional,
    "field_expression": e.member,
    "subscript_expression": e.subscript,
    "cast_expression": e.cast,
    "sizeof_expression": e.sizeof,
    "alignof_expression": e.alignof,
    "offsetof_expression": e.offsetof,
    "new_expression": e.new,
    "delete_expression": e.delete,
    "compound_literal_expression": e.compound_literal,
    "initializer_list": e.initializer_list,
    "lambda_expression": lambdas.lambda_,
    "call_expression": calls.call,
    "parameter_pack_expansion": e.pack_expansion,
    "fold_expression": e.fold,
    "primitive_type": e.type_as_value,
    "sized_type_specifier": e.type_as_value,
    "type_descriptor": e.type_as_value,
    "gnu_asm_expression": e.assembly,
    "compound_statement": e.statement_expression,
}

_STATEMENTS: dict[str, StmtHandler] = {
    "compound_statement": statements.compound,
    "expression_statement": statements.expression_statement,
    "declaration": statements.declaration,
    "alias_declaration": statements.alias,
    "type_definition": statements.alias,
    "using_declaration": statements.nothing,
    "namespace_alias_definition": statements.nothing,
    "static_assert_declaration": statements.nothing,
    "struct_specifier": statements.alias,
    "class_specifier": statements.alias,
    "union_specifier": statements.alias,
    "enum_specifier": statements.alias,
    "attribute_declaration": statements.nothing,
    "if_statement": statements.if_,
    "while_statement": statements.while_,
    "do_statement": statements.do,
    "for_statement": statements.for_,
    "for_range_loop": statements.range_for,
    "switch_statement": switches.switch,
    "labeled_statement": statements.labeled,
    "return_statement": statements.return_,
    "co_return_statement": statements.co_return,
    "break_statement": statements.break_,
    "continue_statement": statements.continue_,
    "goto_statement": statements.goto,
    "throw_statement": statements.throw,
    "try_statement": statements.try_,
    "case_statement": switches.stray_case,
    "function_definition": statements.headed_block,
    "template_declaration": statements.nothing,
    "attributed_statement": statements.attributed,
    "preproc_if": branches.preproc,
    "preproc_ifdef": branches.preproc,
    "preproc_def": branches.preproc_stray,
    "preproc_function_def": branches.preproc_stray,
    "preproc_call": branches.preproc_stray,
    "preproc_include": branches.preproc_stray,
    "preproc_directive": branches.preproc_stray,
    "ERROR": branches.error,
}


def install() -> None:
    """Fill the tables by node kind number."""
    EXPRESSIONS.update({kind(name): handler for name, handler in _EXPRESSIONS.items()})
    STATEMENTS.update({kind(name): handler for name, handler in _STATEMENTS.items()})
    for table in (EXPRESSIONS, STATEMENTS):
        table.pop(0, None)
