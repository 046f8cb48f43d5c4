/** Events: changes that came into force, and their effects, for operators. @module */

export const EVENT_KINDS = [
  "intention",
  "chain",
  "endpoint",
  "protocol",
  "plugin",
  "certificate",
  "limit",
  "source",
  "listener",
  "secret",
  "process",
] as const;

export type EventKind = (typeof EVENT_KINDS)[number];

export type EventSeverity = "info" | "warn" | "error";

/** Plain data, sent between threads. */
export interface NewEvent {
  readonly kind: EventKind;
  /** What has changed: `web => db`, `db`, `inbound`. */
  readonly subject: string;
  /** The change, readable without the subject: `deny web => db added`. */
  readonly text: string;
  /** `3 open connections ended`; absent: none is known. */
  readonly effect?: string;
  /** Default: `info`. */
  readonly severity?: EventSeverity;
  /** The log has a line about it already. */
  readonly isLogged?: true;
}

export type ReportEvent = (event: NewEvent) => void;

export interface ProxyEvent extends Required<Omit<NewEvent, "isLogged">> {
  /** Rises by 1. */
  readonly seq: number;
  /** Wall clock. */
  readonly atMs: number;
}

/**
 * A condition of one data path began or ended: an ejected endpoint, a paused plugin, a limit that refuses.
 * Plain data, sent between threads.
 */
export interface ConditionChange {
  /** The same in every data path. */
  readonly key: string;
  readonly isOn: boolean;
  /** More than 1: it began so many times within a minute, and only the last time is reported. */
  readonly times: number;
  /** Connections and requests that were refused, where it ended. */
  readonly refused: number;
  /** Absent: nothing is reported, as for the ejection of an endpoint that is gone. */
  readonly event: NewEvent | undefined;
}

/** Takes changes of one data path; no further ones are sent before it resolves. */
export type TakeConditions = (changes: readonly ConditionChange[]) => Promise<void>;

/** Reports conditions of a data path. Each `ended` belongs to a `began` of the same key. */
export interface Conditions {
  /** False: it began so often that it is only counted, and should have no log line. */
  began(key: string, event: NewEvent): boolean;
  ended(key: string, event?: NewEvent, refused?: number): void;
}

export const NO_CONDITIONS: Conditions = { began: () => true, ended() {} };
