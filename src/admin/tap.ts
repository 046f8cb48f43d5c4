/** `/tap`: each connection and request as it ends, while somebody reads. @module */

import { messageOf } from "../base/mod.ts";
import { isShownField, type TapFilter } from "../proxy/mod.ts";
import { hide } from "./redact.ts";
import { eventStream } from "./server/event_stream.ts";
import type { AdminView } from "./view.ts";

const HEADER_LIMIT = 10;

interface BadQuery {
  readonly name: string;
  readonly want: string;
}

/** `?source=web&path=/orders&status=5xx&denied&slow=100&header=x-request-id`. */
export function tapFilterOf(
  query: (name: string) => string | undefined,
  headers: readonly string[],
): TapFilter | BadQuery {
  const status = query("status");
  if (status !== undefined && !/^[1-5](?:xx|\d\d)$/.test(status)) {
    return { name: "status", want: "a status such as 503, or a class such as 5xx" };
  }
  const slow = query("slow");
  const slowMs = Number(slow);
  if (slow !== undefined && !(slow !== "" && slowMs >= 0 && slowMs < 1e9)) {
    return { name: "slow", want: "a number of milliseconds" };
  }
  const names = headers.map((name) => name.toLowerCase());
  if (names.length > HEADER_LIMIT || !names.every(isShownField)) {
    return {
      name: "header",
      want: `at most ${HEADER_LIMIT} names of fields; one that may hold a secret is never shown`,
    };
  }
  const texts = (["source", "upstream", "path"] as const).flatMap((name) => {
    const text = query(name);
    return text ? [[name, text] as const] : [];
  });
  return {
    ...Object.fromEntries(texts),
    ...status !== undefined && { status },
    ...query("denied") !== undefined && { isDenied: true as const },
    ...slow !== undefined && { slowMs },
    headers: names,
  };
}

/** An event for each batch of lines; event `dropped` has the number of those that are missing. */
export function tapped(
  view: AdminView,
  filter: TapFilter,
  secrets: () => readonly string[],
): Response {
  return eventStream((sink) => {
    let dropped = 0;
    const lineCount = (lines: string) => lines === "" ? 0 : lines.split("\n").length;
    const take = (lines: string, lost: number) => {
      dropped += lost;
      if (dropped > 0 && sink.send({ event: "dropped", data: String(dropped) })) dropped = 0;
      if (lines !== "" && !sink.send({ data: hide(lines, secrets()) })) dropped += lineCount(lines);
    };
    try {
      return { close: view.tap(filter, take) };
    } catch (error) {
      sink.send({ event: "refused", data: messageOf(error) });
      sink.end();
      return { close() {} };
    }
  });
}
