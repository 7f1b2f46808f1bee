"""The log of a lake that has a subscription: any gateway of the lake can be asked.

Rule: no log is guessed. If two logs have a subscription of one id, the caller must name the log; so
it must if a log can't be asked, as that may have one, too.
"""

from distributary.jobs.client.management_client import Client, Refused
from distributary.jobs.tables.lake_homes import lake_of
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.management.management_messages import ABSENT, Entity, Verb
from distributary.pipeline.model.subscription import SubscriptionKey


def addresses(home: str, log: str) -> list[str]:
    """Return the last known addresses of the gateways of the lake at this home: of one log, or of
    all. Raises InvalidRequest where there is none, StoreError when its store doesn't answer."""
    lake = lake_of(home)
    if lake is None:
        raise InvalidRequest(f"{home} is no lake: name a gateway by the option 'gateway'")
    said = [lake.address_of(one) for one in ([log] if log else lake.placement().logs)]
    found = [one.url for one in said if one is not None]
    if not found:
        raise InvalidRequest(f"no gateway of {home} has said yet where it listens: start one")
    return found


def log_of(client: Client, subscription: str, said: str, option: str) -> str:
    """Return the log of the durable subscription with this id; empty where the gateway's home has
    one log, or no log has it: a request for it is refused then. `said`: the log that `option`
    names, if any. Raises InvalidRequest where several logs have it, or may."""
    if said or SubscriptionKey.parse(subscription).queue:  # a queue is where it is placed
        return said
    logs = client.ask(Verb.READ, Entity.NODE, "self").get("logs", [])
    having, unasked = list[str](), dict[str, str]()
    for log in logs:
        try:
            client.ask(Verb.READ, Entity.SUBSCRIPTION, subscription, log=log)
        except Refused as refused:
            if refused.status != ABSENT:
                unasked[log] = str(refused)
        else:
            having.append(log)
    if len(having) > 1:
        raise InvalidRequest(
            f"{subscription} is a subscription in the logs {' and '.join(having)}, one in each: "
            f"name the log that is meant by {option}"
        )
    for log, why in unasked.items():
        raise InvalidRequest(
            f"whether {subscription} is a subscription in the log {log}, too, can't be asked: "
            f"{why}. Name the log that is meant by {option}"
        )
    return having[0] if having else ""
