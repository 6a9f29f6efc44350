"""What the pages of one desk share: the folders, the sessions, and names of paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from medsanitize.desk.previews import Previews
from medsanitize.desk.processes import Processes
from medsanitize.desk.reviews import Reviews
from medsanitize.desk.roots import Names, Roots
from medsanitize.desk.sessions import Sessions
from starlette.requests import Request


@dataclass(slots=True, repr=False)
class Desk:
    """The desk of one process; it stores nothing but what is in the folders of the policies."""

    roots: Roots
    sessions: Sessions
    names: Names = field(default_factory=Names)
    previews: Previews = field(default_factory=Previews)
    reviews: Reviews = field(default_factory=Reviews)
    processes: Processes = field(default_factory=Processes)

    def close(self) -> None:
        """End what belongs to this process alone; runs that it started go on."""
        self.previews.close()
        self.reviews.close_all()

    def path_of(self, name: str) -> Path:
        """Return the path of an opaque name, if it still is within the roots."""
        return self.roots.check(self.names.path(name))


def desk_of(request: Request) -> Desk:
    """Return the desk that answers a request."""
    desk: Desk = request.app.state.desk
    return desk


def project_path(request: Request) -> Path:
    """Return the policy that an address names."""
    return desk_of(request).path_of(request.path_params["project"])
