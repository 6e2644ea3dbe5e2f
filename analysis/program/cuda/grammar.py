"""Node kinds and fields of the grammar by number: comparing numbers is twice as fast as comparing names."""

from __future__ import annotations

from stitchcuda.analysis.syntax.parse import CUDA


def kind(name: str, named: bool = True) -> int:
    """The number of a node kind; 0 never matches, so a kind a newer grammar dropped does no harm."""
    return CUDA.id_for_node_kind(name, named) or 0


def field(name: str) -> int:
    found = CUDA.field_id_for_name(name)
    if found is None:
        raise LookupError(f"the CUDA grammar has no field {name!r}")
    return found


F_ALTERNATIVE = field("alternative")
F_ARGUMENT = field("argument")
F_ARGUMENTS = field("arguments")
F_BODY = field("body")
F_CAPTURES = field("captures")
F_CONDITION = field("condition")
F_CONSEQUENCE = field("consequence")
F_DECLARATOR = field("declarator")
F_DEFAULT = field("default_value")
F_DESIGNATOR = field("designator")
F_FIELD = field("field")
F_FUNCTION = field("function")
F_INDICES = field("indices")
F_INITIALIZER = field("initializer")
F_LABEL = field("label")
F_LEFT = field("left")
F_LENGTH = field("length")
F_NAME = field("name")
F_OPERATOR = field("operator")
F_PARAMETERS = field("parameters")
F_PATH = field("path")
F_PLACEMENT = field("placement")
F_RIGHT = field("right")
F_SCOPE = field("scope")
F_SIZE = field("size")
F_TYPE = field("type")
F_UPDATE = field("update")
F_VALUE = field("value")

ARGUMENT_LIST = kind("argument_list")
ARRAY_DECLARATOR = kind("array_declarator")
ABSTRACT_ARRAY = kind("abstract_array_declarator")
ABSTRACT_FUNCTION = kind("abstract_function_declarator")
ABSTRACT_PARENTHESIZED = kind("abstract_parenthesized_declarator")
ABSTRACT_POINTER = kind("abstract_pointer_declarator")
ABSTRACT_REFERENCE = kind("abstract_reference_declarator")
ATTRIBUTED_DECLARATOR = kind("attributed_declarator")
BINARY = kind("binary_expression")
CALL = kind("call_expression")
CASE = kind("case_statement")
CATCH = kind("catch_clause")
CLASS = kind("class_specifier")
COMMENT = kind("comment")
COMPOUND = kind("compound_statement")
CONDITION_CLAUSE = kind("condition_clause")
DECLARATION = kind("declaration")
DEPENDENT_NAME = kind("dependent_name")
DEPENDENT_TYPE = kind("dependent_type")
DESTRUCTOR_NAME = kind("destructor_name")
ENUM = kind("enum_specifier")
ERROR = kind("ERROR")
EXPRESSION_STATEMENT = kind("expression_statement")
FIELD_EXPRESSION = kind("field_expression")
FIELD_IDENTIFIER = kind("field_identifier")
FUNCTION_DECLARATOR = kind("function_declarator")
FUNCTION_DEFINITION = kind("function_definition")
IDENTIFIER = kind("identifier")
IF = kind("if_statement")
INITIALIZER_LIST = kind("initializer_list")
INITIALIZER_PAIR = kind("initializer_pair")
INIT_DECLARATOR = kind("init_declarator")
INIT_STATEMENT = kind("init_statement")
KERNEL_CALL = kind("kernel_call_syntax")
LABELED = kind("labeled_statement")
LAUNCH_BOUNDS = kind("launch_bounds")
OPERATOR_CAST = kind("operator_cast")
OPERATOR_NAME = kind("operator_name")
OPTIONAL_PARAMETER = kind("optional_parameter_declaration")
PARAMETER = kind("parameter_declaration")
PARENTHESIZED = kind("parenthesized_expression")
PARENTHESIZED_DECLARATOR = kind("parenthesized_declarator")
POINTER_DECLARATOR = kind("pointer_declarator")
POINTER_TYPE_DECLARATOR = kind("pointer_type_declarator")
PREPROC_ELIF = kind("preproc_elif")
PREPROC_ELIFDEF = kind("preproc_elifdef")
PREPROC_ELSE = kind("preproc_else")
PREPROC_IF = kind("preproc_if")
PREPROC_IFDEF = kind("preproc_ifdef")
PRIMITIVE_TYPE = kind("primitive_type")
QUALIFIED = kind("qualified_identifier")
REFERENCE_DECLARATOR = kind("reference_declarator")
SIZED_TYPE = kind("sized_type_specifier")
STORAGE_CLASS = kind("storage_class_specifier")
STRUCT = kind("struct_specifier")
STRUCTURED_BINDING = kind("structured_binding_declarator")
TEMPLATE_ARGUMENTS = kind("template_argument_list")
TEMPLATE_FUNCTION = kind("template_function")
TEMPLATE_METHOD = kind("template_method")
TEMPLATE_TYPE = kind("template_type")
THIS = kind("this")
TYPE_DESCRIPTOR = kind("type_descriptor")
TYPE_IDENTIFIER = kind("type_identifier")
TYPE_QUALIFIER = kind("type_qualifier")
UNION = kind("union_specifier")
VARIADIC_DECLARATOR = kind("variadic_declarator")
VARIADIC_PARAMETER = kind("variadic_parameter_declaration")

RECORDS = frozenset({CLASS, STRUCT, UNION})
DECLARATORS = frozenset(
    {
        IDENTIFIER,
        FIELD_IDENTIFIER,
        TYPE_IDENTIFIER,
        QUALIFIED,
        POINTER_DECLARATOR,
        POINTER_TYPE_DECLARATOR,
        REFERENCE_DECLARATOR,
        ARRAY_DECLARATOR,
        FUNCTION_DECLARATOR,
        PARENTHESIZED_DECLARATOR,
        ATTRIBUTED_DECLARATOR,
        INIT_DECLARATOR,
        STRUCTURED_BINDING,
        VARIADIC_DECLARATOR,
        ABSTRACT_ARRAY,
        ABSTRACT_FUNCTION,
        ABSTRACT_PARENTHESIZED,
        ABSTRACT_POINTER,
        ABSTRACT_REFERENCE,
        OPERATOR_NAME,
        OPERATOR_CAST,
        DESTRUCTOR_NAME,
        TEMPLATE_FUNCTION,
    }
)
