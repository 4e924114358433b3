"""What goes over the wire: requests are checked by these, answers are described by them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

MAX_CANDIDATES = 1000
MAX_EVENTS = 1000
MAX_FEATURES = 10_000
MAX_SLOTS = 100

Id = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Number = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Seconds = Annotated[float, Field(ge=0.0, le=30 * 86_400.0)]


class _Request(BaseModel):
    """Strict: a number is no text, and an unknown field is a mistake that is told."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Feature(_Request):
    """A named feature; without a default it must be in every candidate."""

    name: Id
    default: Number | None = None


class CreateRanker(_Request):
    """A new ranker."""

    name: Name
    features: (
        Annotated[int, Field(ge=1, le=MAX_FEATURES)]
        | Annotated[list[Id | Feature], Field(min_length=1, max_length=MAX_FEATURES)]
    ) = Field(description="How many, or their names, some with a value to use where missing.")
    algorithm: str = Field("olcascade", max_length=64)
    settings: dict[str, JsonValue] = Field(
        {}, max_length=100, description='Of the algorithm; "preset" picks a named set.'
    )
    k: int = Field(10, ge=1, le=MAX_SLOTS, description="Slots of a list.")
    history: int = Field(10_000, ge=1, le=1_000_000, description="Impressions remembered.")
    normalise: Literal["query", "unit", "none"] = "query"
    seed: int = Field(0, ge=0, lt=2**31)
    window_s: Seconds = Field(
        60.0, description="An impression closes so long after its last event."
    )
    limit_s: Seconds = Field(1800.0, description="It closes so long after it was served anyway.")
    explore_share: Share = Field(
        0.1, description="Of the traffic that explores in requests with a baseline_order."
    )
    keep_candidates: Share = Field(
        0.01, description="Of the rankings whose every candidate's features are logged."
    )


class Candidate(_Request):
    """One candidate: its id and its features, all in order or by name; null where missing."""

    id: Id
    # Limits on each member and tried in this order: thousands of numbers come through here.
    features: (
        Annotated[list[Number | None], Field(max_length=MAX_FEATURES)]
        | Annotated[dict[str, Number | None], Field(max_length=MAX_FEATURES)]
    ) = Field(union_mode="left_to_right")


class RankRequest(_Request):
    """Candidates to put in order."""

    candidates: list[Candidate] = Field(min_length=1, max_length=MAX_CANDIDATES)
    ranking_id: Id | None = Field(None, description="Yours, so that a retry gets the same answer.")
    query: str | None = Field(None, max_length=2000, description="Text or id; only logged.")
    baseline_order: list[Id] | None = Field(
        None,
        max_length=MAX_CANDIDATES,
        description="All candidates in production's order, kept where the ranker is not certain.",
    )
    explore_share: Share | None = Field(None, description="In place of the ranker's own share.")


class Item(BaseModel):
    """A candidate in its slot; 0 is the top."""

    id: str
    slot: int
    score: float


class RankAnswer(BaseModel):
    """A list to show."""

    model_config = ConfigDict(protected_namespaces=())

    ranking_id: str
    items: list[Item]
    choices: list[int] = Field(description="How many candidates could have stood at each slot.")
    log_propensity: float = Field(description="Log-probability of exactly this list.")
    certain_pairs: int
    uncertain_pairs: int
    n_candidates: int
    model_version: int = Field(description="How often the model had changed when it drew this.")
    mode: Literal["explore", "greedy", "floor", "shadow"]


class StoredAnswer(RankAnswer):
    """A ranking that was served: its list, then the other candidates in score order."""

    items: list[Item] = Field(description="Those of the page asked for; slots go on counting.")
    n_shown: int
    closed: bool
    events: int


class Click(_Request):
    """A click; a weight lets a purchase or a long stay count for more."""

    id: Id
    weight: Number = 1.0


class FeedbackEvent(_Request):
    """What happened to a served ranking. An event_id makes retries safe."""

    ranking_id: Id
    clicks: list[Click] = Field([], max_length=MAX_CANDIDATES)
    shown_upto: int | None = Field(
        None, ge=-(2**31), lt=2**31, description="The user saw slots 0 to shown_upto - 1."
    )
    close: bool = Field(False, description="Nothing more will come: learn from it now.")
    event_id: Id | None = None


class Feedback(_Request):
    """A batch of events."""

    events: list[FeedbackEvent] = Field(min_length=1, max_length=MAX_EVENTS)


class EventStatus(BaseModel):
    """What became of an event."""

    ranking_id: str
    event_id: str | None
    status: Literal[
        "accepted",
        "duplicate",
        "conflict",
        "late",
        "unknown_ranking",
        "unknown_item",
        "rejected",
        "paused",
    ]


class FeedbackAnswer(BaseModel):
    """A status for each event, in the order sent; accepted and paused ones are durable."""

    statuses: list[EventStatus]


class Switches(_Request):
    """Switches to set; those left out stay."""

    explore: bool | None = None
    learn: bool | None = None
    serve: bool | None = None


class SwitchesAnswer(BaseModel):
    """All switches of a ranker."""

    explore: bool
    learn: bool
    serve: bool


class RankerAnswer(BaseModel):
    """A ranker as it is now."""

    model_config = ConfigDict(protected_namespaces=())

    name: str
    state: Literal["warming", "ready", "broken"]
    problem: str | None = None
    config: dict[str, Any]
    switches: SwitchesAnswer
    model_version: int | None = None
    n_trained: int = 0
    feature_drift: float | None = None
    drifted_feature: str | None = None


class RankersAnswer(BaseModel):
    """All rankers by name."""

    rankers: list[RankerAnswer]


class SnapshotAnswer(BaseModel):
    """A kept snapshot."""

    model_config = ConfigDict(protected_namespaces=())

    snapshot_id: str
    covers: int
    at_ms: int
    reason: str
    model_version: int
    n_trained: int
    digest: str


class SnapshotsAnswer(BaseModel):
    """Kept snapshots, the oldest first."""

    snapshots: list[SnapshotAnswer]


class PromoteAnswer(BaseModel):
    """The model is now a snapshot's; `serving` is false while the learner is still loading it."""

    model_config = ConfigDict(protected_namespaces=())

    snapshot_id: str
    position: int
    serving: bool
    model_version: int | None


class FeatureShare(BaseModel):
    """How much of the score difference one feature makes."""

    name: str
    above: float
    below: float
    contribution: float


class ExplainAnswer(BaseModel):
    """Why one candidate stands above another, in the eyes of the model that serves now."""

    model_config = ConfigDict(protected_namespaces=())

    ranking_id: str
    above: str
    below: str
    score_above: float
    score_below: float
    probability: float = Field(description="That the first is the better one, by the model.")
    width: float | None = Field(description="Of the confidence bound; null where none is kept.")
    width_of: Literal["probability", "logit"] | None = Field(description="What the width bounds.")
    certain: bool
    beyond_features: float = Field(description="What is known of these two beyond their features.")
    features: list[FeatureShare] = Field(description="By the size of their contribution.")
    model_version: int
    served_version: int = Field(description="Of the model that drew the ranking.")


class Erase(_Request):
    """Rankings to forget: their records are overwritten on disk."""

    ranking_ids: list[Id] = Field(min_length=1, max_length=MAX_EVENTS)


class CaughtUp(BaseModel):
    """The model that serves."""

    model_config = ConfigDict(protected_namespaces=())

    model_version: int
    n_trained: int


class EraseAnswer(BaseModel):
    """How many records are gone."""

    dropped: int


class Health(BaseModel):
    """How the service is."""

    status: str
    reasons: list[str] = []


class ErrorBody(BaseModel):
    """What went wrong, and what to do about it."""

    code: str
    message: str
    hint: str


class ErrorAnswer(BaseModel):
    """Every failure, on every route."""

    error: ErrorBody
