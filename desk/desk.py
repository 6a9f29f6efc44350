"""What the pages of one desk share: the folders, the sessions, and names of paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from medsanitize import Policy, UsageError, load_policy
from medsanitize.desk.policy_paths import require_allowed
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
    policies: dict[Path, tuple[tuple[int, int], Policy]] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    previews: Previews = field(default_factory=Previews)
    reviews: Reviews = field(default_factory=Reviews)
    processes: Processes = field(default_factory=Processes)

    def close(self) -> None:
        """End what belongs to this process alone; runs that it started go on."""
        self.previews.close()
        self.reviews.close_all()

    def policy(self, path: Path) -> Policy:
        """Return a policy, loaded again when its file has changed.

        Raises
        ------
        UsageError
            It cannot be read, is invalid, or leads out of the roots.
        """
        try:
            facts = path.stat()
        except OSError:
            raise UsageError("The policy cannot be read", "Go back to the projects") from None
        key = (facts.st_mtime_ns, facts.st_size)
        found = self.policies.get(path)
        if found is None or found[0] != key:
            loaded = load_policy(path)
            require_allowed(self.roots, loaded)
            found = self.policies[path] = (key, loaded)
        return found[1]

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
