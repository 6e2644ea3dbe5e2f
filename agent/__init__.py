"""Proposals of faster programs. So far only the form of a proposal: `blueprint.py`."""
