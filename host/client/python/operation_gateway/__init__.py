"""A client of operation-gateway."""

from .errors import GatewayError, StillWaiting
from .evidence import Check, Report, verify_evidence
from .gateway import Event, Gateway, Operation

__all__ = ["Check", "Event", "Gateway", "GatewayError", "Operation", "Report", "StillWaiting", "verify_evidence"]
