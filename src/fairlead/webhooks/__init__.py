"""Webhooks: sends customers' own servers the events of their documents."""

from fairlead.webhooks.deliverer import Deliverer
from fairlead.webhooks.sender import Sender
from fairlead.webhooks.signing import new_secret
from fairlead.webhooks.urls import Networks, check_url

__all__ = ["Deliverer", "Networks", "Sender", "check_url", "new_secret"]
