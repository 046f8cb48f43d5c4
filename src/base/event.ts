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
