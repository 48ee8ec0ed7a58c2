"""`fairlead.keys`: API keys."""

from __future__ import annotations

import builtins
from contextlib import suppress

from fairlead.config.data_folder import DataFolder
from fairlead.errors import UnknownKey
from fairlead.model.keys import Key, id_of, matches, new_key, sha256_of
from fairlead.model.names import check_customer
from fairlead.storage import Store


class Keys:
    """API keys. `by` names who decides, in the audit record."""

    def __init__(self, store: Store, folder: DataFolder, actor: str | None) -> None:
        self._store = store
        self._folder = folder
        self._actor = actor

    def add(self, customer: str | None = None, *, by: str | None = None) -> tuple[str, Key]:
        """A new key of a customer, which is added where it is unknown, or of an operator.

        The key itself is returned only here; the store has its SHA-256.
        """
        actor = by or self._actor
        if customer is not None:
            self._store.add_customer(check_customer(customer), by=actor)
        key, id_ = new_key()
        return key, self._store.add_key(id_, sha256_of(key), customer, by=actor)

    def list(self, customer: str | None = None, *, operators: bool = False) -> builtins.list[Key]:
        """Keys, oldest first: of one customer, of operators, or all."""
        if customer is not None:
            self._store.customer(customer)  # an unknown one is an error, not an empty list
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
        """The operator key of this data folder, kept in a file that only this user may read.

        Made where there is none, or where the one in the file was revoked.
        """
        key = self._folder.read_operator_key()
        id_ = None if key is None else id_of(key)
        if key is not None and id_ is not None:
            with suppress(UnknownKey):
                known, sha256 = self._store.stored_key(id_)
                if matches(key, sha256) and not known.is_revoked:
                    return key, known
        key, made = self.add(None, by="first-start")
        self._folder.write_operator_key(key)
        return key, made
