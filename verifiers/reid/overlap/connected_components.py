"""Connected components of the match graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=tuple[object, ...])


def connected_components(links: Iterable[tuple[Node, Node]]) -> dict[Node, int]:
    """Number the connected components from 1, in the order of their smallest nodes.

    Parameters
    ----------
    links : iterable of (node, node)
        Edges; nodes must be orderable.

    Returns
    -------
    dict
        Number of the component of every node that has an edge.
    """
    parent: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        parent.setdefault(node, node)
        while parent[node] != node:
            # Path halving keeps long chains short.
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for one, other in links:
        # The smaller root wins, so that components are numbered by their smallest node.
        a, b = sorted((root(one), root(other)))
        parent[b] = a
    numbers: dict[Node, int] = {}
    return {node: numbers.setdefault(root(node), len(numbers) + 1) for node in sorted(parent)}
