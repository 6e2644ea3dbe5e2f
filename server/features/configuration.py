"""Initialisation and settings."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException
from stitchcuda.server.documents import path_of
from stitchcuda.server.features import (
    code_lens,
    diagnostics,
    inlay_hint,
    project_settings,
    registration,
    status,
    watched_files,
)
from stitchcuda.server.settings import SECTION, Settings, read_settings

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

log = logging.getLogger(__name__)

_PULL_SECONDS = 3.0


def initialize(ls: StitchServer, params: t.InitializeParams) -> None:
    encoding = ls.workspace.position_encoding
    ls.documents.encoding = str(getattr(encoding, "value", encoding))  # type: ignore[assignment]
    ls.roots = _roots(ls)
    diagnostics.configure(ls)
    options = params.initialization_options
    known = options.get("commands") if isinstance(options, dict) else None
    name = params.client_info.name if params.client_info is not None else ""
    ls.client_shows_graph = "Visual Studio Code" in name or isinstance(known, list) and "stitchcuda.showGraph" in known
    ls.client_asks_aside = ls.client_shows_graph and name != "Neovim"
    # Only from here: settings of a workspace must not be able to say that it is to be trusted.
    ls.trusted = isinstance(options, dict) and options.get("trusted") is True
    status.configure(ls, options)
    ls.initial_settings, mistakes = read_settings(Settings(), options)
    ls.settings = ls.initial_settings
    ls.mistakes = list(mistakes)
    if params.process_id is not None:
        ls.watch_parent(params.process_id)
    ls.analyses.configure(ls.roots, ls.settings.wholeProgram)
    ls.warm_up()


async def initialized(ls: StitchServer, params: t.InitializedParams) -> None:
    await _pull(ls)
    await watched_files.register(ls)
    if get_capability(ls.client_capabilities, "workspace.did_change_configuration.dynamic_registration"):
        options = t.DidChangeConfigurationRegistrationOptions(section=SECTION)
        await registration.register(ls, "stitchcuda-settings", t.WORKSPACE_DID_CHANGE_CONFIGURATION, options)
    await status.initialized(ls)


async def did_change_configuration(ls: StitchServer, params: t.DidChangeConfigurationParams) -> None:
    if get_capability(ls.client_capabilities, "workspace.configuration"):
        await _pull(ls)
    else:
        _apply(ls, params.settings)


async def did_change_folders(ls: StitchServer, params: t.DidChangeWorkspaceFoldersParams) -> None:
    ls.roots = _roots(ls)
    project_settings.forget(ls)
    _analyse_again(ls)
    if get_capability(ls.client_capabilities, "workspace.configuration"):
        await _pull(ls)


async def _pull(ls: StitchServer) -> None:
    """Asks the client for its settings, and with several folders for those of each. One that does not answer keeps us with what we
    have."""
    values: Any = None
    by_folder: dict[str, Any] = {}
    if get_capability(ls.client_capabilities, "workspace.configuration"):
        folders = list(ls.workspace.folders) if len(ls.workspace.folders) > 1 else []
        scopes = [t.ConfigurationItem(section=SECTION, scope_uri=uri) for uri in folders]
        items = t.ConfigurationParams(items=[t.ConfigurationItem(section=SECTION), *scopes])
        try:
            async with asyncio.timeout(_PULL_SECONDS):
                answer = await ls.workspace_configuration_async(items)
            values = answer[0] if answer else None
            by_folder = {path_of(uri): given for uri, given in zip(folders, answer[1:], strict=False)}
        except (TimeoutError, JsonRpcException):
            log.warning("the client did not answer the request for its settings; the defaults are used")
    _apply(ls, values, by_folder)


def _apply(ls: StitchServer, values: object, by_folder: Mapping[str, Any] | None = None) -> None:
    """Takes the values as the settings. What is wrong with them is told once, however often it is read."""
    before = ls.settings, ls.folder_settings
    ls.settings, mistakes = read_settings(ls.initial_settings, _plain(values))
    found = [*ls.mistakes, *mistakes]
    ls.mistakes.clear()
    ls.folder_settings = {}
    for path, given in (by_folder or {}).items():
        ls.folder_settings[path], mistakes = read_settings(ls.initial_settings, _plain(given))
        found += mistakes
    fresh = [mistake for mistake in dict.fromkeys(found) if mistake not in ls.told_mistakes]
    if fresh:
        ls.told_mistakes.update(fresh)
        text = f"stitchcuda settings: {'; '.join(fresh)}"
        ls.window_show_message(t.ShowMessageParams(type=t.MessageType.Warning, message=text))
    if (ls.settings, ls.folder_settings) == before:
        return
    if _reading(ls.settings, ls.folder_settings) != _reading(*before):
        _analyse_again(ls)
    diagnostics.show_again(ls)
    inlay_hint.refresh(ls)
    code_lens.refresh(ls)


def _reading(settings: Settings, by_folder: Mapping[str, Settings]) -> tuple[bool, tuple[str, ...]]:
    """Whether whole programs are read, and in which folders they are not."""
    return settings.wholeProgram, tuple(path for path, own in by_folder.items() if not own.wholeProgram)


def _analyse_again(ls: StitchServer) -> None:
    ls.analyses.configure(ls.roots, *_reading(ls.settings, ls.folder_settings))
    for document in ls.documents.all():
        if ls.is_relevant(document):
            ls.analyses.request(document.path, delay=0)


def _roots(ls: StitchServer) -> tuple[str, ...]:
    uris = list(ls.workspace.folders) or ([ls.workspace.root_uri] if ls.workspace.root_uri else [])
    return tuple(path for path in map(path_of, uris) if os.path.isabs(path))


def _plain(value: object) -> object:
    """cattrs gives untyped JSON objects as attribute-less values with `_asdict` in some clients' messages."""
    as_dict = getattr(value, "_asdict", None)
    return as_dict() if callable(as_dict) else value
