"""Keys for the network."""

from __future__ import annotations

from contextlib import suppress

from fairlead.app.customers import Customers
from fairlead.errors import UnknownKey
from fairlead.model.keys import Key, id_of, matches, new_key, sha256_of
from fairlead.model.names import check_customer


class Keys(Customers):
    """Made, listed and revoked."""

    def add_key(self, customer: str | None, *, by: str | None = None) -> tuple[str, Key]:
        """A new key of a customer, made known where it is not, or of an operator.

        The key itself comes back this once; what is kept does not tell it.
        """
        if customer is not None:
            self.store.add_customer(check_customer(customer), by=by)
        key, id_ = new_key()
        return key, self.store.add_key(id_, sha256_of(key), customer, by=by)

    def keys(self, customer: str | None = None, *, operators: bool = False) -> list[Key]:
        """Keys, oldest first: of one customer, of operators, or all."""
        if customer is not None:
            self.customer(customer)
        every = self.store.keys()
        return [
            each
            for each in every
            if (customer is None or each.customer == customer) and (not operators or each.operator)
        ]

    def revoke_key(self, id_: str, *, by: str | None = None) -> Key:
        """Let a key open nothing any more."""
        return self.store.revoke_key(id_, by=by)

    def operator_key(self) -> tuple[str, Key]:
        """The operator key of this data folder, kept in a file that only this user may read.

        Made where there is none, or where the one in the file was revoked.
        """
        found = self.folder.read_operator_key()
        id_ = None if found is None else id_of(found)
        if found is not None and id_ is not None:
            with suppress(UnknownKey):
                known, sha256 = self.store.stored_key(id_)
                if matches(found, sha256) and not known.is_revoked:
                    return found, known
        key, made = self.add_key(None, by="first-start")
        self.folder.write_operator_key(key)
        return key, made
