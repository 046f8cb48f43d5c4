/** `/events`: what happened, as JSON, as lines, or as a stream. @module */

import {
  EVENT_KINDS,
  type EventKind,
  type NewEvent,
  parseDurationMs,
  type ProxyEvent,
} from "../base/mod.ts";
import { shownLine } from "./redact.ts";
import { eventStream } from "./server/event_stream.ts";
import type { AdminView, EventsView } from "./view.ts";

export interface EventShown extends Required<Omit<NewEvent, "isLogged">> {
  readonly seq: number;
  readonly at: string;
  /** From a process before this one. */
  readonly earlier: boolean;
  /** The effect, or more of it, follows within a minute. */
  readonly pending: boolean;
}

type Journal = Pick<EventsView, "events" | "earlierSeq" | "isPending">;

/** A part of the events. */
export interface EventFilter {
  /** Empty: all. */
  readonly kinds: readonly EventKind[];
  readonly isMeant: (event: ProxyEvent) => boolean;
}

/** The parameter of the query that cannot be read, and its form. */
export interface BadFilter {
  readonly name: string;
  readonly want: string;
}

/** `?kind=` (several with commas) and `?since=` (number of an event, ISO time or duration). */
export function readEventFilter(
  query: (name: string) => string | undefined,
  { nowMs, lastSeq }: { readonly nowMs: number; readonly lastSeq: number },
): EventFilter | BadFilter {
  const kinds: EventKind[] = [];
  for (const word of (query("kind") ?? "").split(",").filter((word) => word !== "")) {
    const kind = EVENT_KINDS.find((one) => one === word);
    if (!kind) return { name: "kind", want: EVENT_KINDS.join(", ") };
    kinds.push(kind);
  }
  const since = query("since") ?? "";
  // A client that comes back after a restart names an event that is not there yet.
  const isOfOthers = /^\d{1,15}$/.test(since) && Number(since) > lastSeq;
  const isSince = isOfOthers ? () => true : readSince(since, nowMs);
  if (!isSince) {
    return {
      name: "since",
      want: "the number of an event, a time such as 2026-01-31T12:00:00Z, or 10m",
    };
  }
  return {
    kinds,
    isMeant: (event) => isSince(event) && (kinds.length === 0 || kinds.includes(event.kind)),
  };
}

function readSince(text: string, nowMs: number): ((event: ProxyEvent) => boolean) | undefined {
  if (text === "") return () => true;
  if (/^\d{1,15}$/.test(text)) return ({ seq }) => seq > Number(text);
  const spanMs = parseDurationMs(text);
  const sinceMs = spanMs === undefined ? Date.parse(text) : nowMs - spanMs;
  return Number.isNaN(sinceMs) ? undefined : ({ atMs }) => atMs >= sinceMs;
}

/** Newest first. */
export function eventsShown(
  journal: Journal,
  { isMeant }: EventFilter,
  limit: number,
): { readonly total: number; readonly events: readonly EventShown[] } {
  const meant = journal.events.filter(isMeant);
  const last = limit === 0 ? [] : meant.slice(-limit);
  const shown = last.reverse().map((event) => eventShown(event, journal));
  return { total: meant.length, events: shown };
}

function eventShown(
  event: ProxyEvent,
  { earlierSeq, isPending }: Omit<Journal, "events">,
): EventShown {
  const { seq, atMs, kind, subject, text, effect, severity } = event;
  const at = new Date(atMs).toISOString();
  const [earlier, pending] = [seq <= earlierSeq, isPending(seq)];
  return { seq, at, kind, subject, text, effect, severity, earlier, pending };
}

/** The text with its effect, and whether that is all of it. */
export function eventText(
  { text, effect, pending }: Pick<EventShown, "text" | "effect" | "pending">,
): string {
  const later = pending ? " (effect follows within a minute)" : "";
  return `${text}${effect && `: ${effect}`}${later}`;
}

/** One line each: Consul and peers choose parts of it. */
export function eventLine(event: EventShown): string {
  const { at, kind, severity } = event;
  const level = severity === "info" ? "" : `${severity.toUpperCase()} `;
  return `${at} ${kind} ${level}${eventText(event)}`.replace(/\s+/g, " ").trim();
}

/**
 * The meant events so far, where a start is given, and then each new one. A client that reads too slowly
 * gets an event `lost` with the number of events that it missed.
 */
export function followEvents(
  view: Pick<AdminView, "events" | "secrets">,
  { isMeant }: EventFilter,
  { fromStart }: { readonly fromStart: boolean },
): Response {
  const journal = view.events();
  return eventStream((sink) => {
    let seq = fromStart ? 0 : journal.events.at(-1)?.seq ?? 0;
    let isFirst = true;
    /** The client has not read what was sent. */
    let isFull = false;
    const send = (event: Parameters<typeof sink.send>[0]) => !(isFull = !sink.send(event));
    const sendNew = () => {
      const { events } = journal;
      const [oldest] = events;
      if (isFull || !oldest) return;
      const lost = Math.max(0, oldest.seq - seq - 1);
      if (lost > 0 && !isFirst && !send({ event: "lost", data: `{"lost":${lost}}` })) return;
      isFirst = false;
      seq += lost;
      for (const event of events.slice(seq + 1 - oldest.seq)) {
        const data = () => shownLine(eventShown(event, journal), view.secrets());
        if (isMeant(event) && !send({ id: event.seq, data: data() })) return;
        seq = event.seq;
      }
    };
    const onRoom = () => {
      isFull = false;
      sendNew();
    };
    const leave = journal.follow((changed) => {
      if (!changed) return sendNew();
      // One that was not sent yet is sent as it is now.
      if (changed.seq > seq || isFull || !isMeant(changed)) return;
      const data = shownLine(eventShown(changed, journal), view.secrets());
      // A client that reads too slowly does without it.
      sink.send({ event: "changed", data });
    });
    sendNew();
    return { close: leave, onRoom };
  });
}
