"""`fairlead.keys`: API keys."""

from __future__ import annotations

import builtins
from contextlib import suppress

from fairlead.config.data_folder import DataFolder
from fairlead.errors import UnknownKey
from fairlead.model.keys import (
    Key,
    KeyOwner,
    Role,
    check_days,
    id_of,
    key_owner,
    matches,
    new_key,
    sha256_of,
)
from fairlead.model.submissions import Moment, NotBefore, moment
from fairlead.model.usage import DAY
from fairlead.storage import Store


class EmbeddedKeys:
    """API keys. `by` is the actor in the audit record."""

    def __init__(self, store: Store, folder: DataFolder, actor: str | None) -> None:
        self._store = store
        self._folder = folder
        self._actor = actor

    def add(
        self,
        customer: str | None = None,
        *,
        service: str | None = None,
        viewer: str | None = None,
        worker: str | None = None,
        expires: Moment | None = None,
        by: str | None = None,
    ) -> tuple[str, Key]:
        """Make a key of a customer, which is added if it is unknown.

        Or of a service, which submits and reads for all customers, a viewer, who reads everything,
        or a worker, by a name; without any, of an operator. The key is valid until `expires`: a
        time, or a delay in seconds. Only this call returns it; the store has its SHA-256.
        """
        actor = by or self._actor
        owner = key_owner(customer, service=service, viewer=viewer, worker=worker)
        end = None if expires is None else moment(expires, "expires")
        if owner.customer is not None:
            self._store.add_customer(owner.customer, by=actor)
        key, id_ = new_key()
        return key, self._store.add_key(id_, sha256_of(key), owner, expires=end, by=actor)

    def add_link(self, customer: str, *, days: int, by: str | None = None) -> tuple[str, Key]:
        """Make the key of a link to the page of a customer, which must be known."""
        key, id_ = new_key()
        owner, end = KeyOwner(Role.LINK, customer), NotBefore(check_days(days) * DAY, is_delay=True)
        by = by or self._actor
        return key, self._store.add_key(id_, sha256_of(key), owner, expires=end, by=by)

    def links(self, customer: str) -> builtins.list[Key]:
        """The valid links to the page of a customer, oldest first."""
        now = self._store.now()
        return [key for key in self.list(customer) if key.role is Role.LINK and key.is_valid(now)]

    def list(self, customer: str | None = None, *, operators: bool = False) -> builtins.list[Key]:
        """Keys, oldest first: of one customer, of operators, or all."""
        if customer is not None:
            self._store.customer(customer)  # raises UnknownCustomer
        keys = self._store.keys()
        return [
            key
            for key in keys
            if (customer is None or key.customer == customer) and (not operators or key.operator)
        ]

    def revoke(self, id_: str, /, *, by: str | None = None) -> Key:
        """Revoke a key immediately."""
        return self._store.revoke_key(id_, by=by or self._actor)

    def operator_key(self) -> tuple[str, Key]:
        """The operator key of this data folder, from a file that only this user may read.

        Makes a new key if there is none, or if it was revoked.
        """
        secret = self._folder.read_operator_key()
        id_ = None if secret is None else id_of(secret)
        if secret is not None and id_ is not None:
            with suppress(UnknownKey):
                key, sha256 = self._store.stored_key(id_)
                if matches(secret, sha256) and key.is_valid(self._store.now()):
                    return secret, key
        secret, key = self.add(None, by="first-start")
        self._folder.write_secret(self._folder.operator_key, secret)
        return secret, key
