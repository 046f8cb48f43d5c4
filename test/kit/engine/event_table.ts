/**
 * The reaction of a connection on a fake socket to each event in each of its states, as a table: a row
 * for each event, a column for each state, in a cell the log.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { StreamEvents } from "../../../src/net/mod.ts";

/** The events that its owner gets, each with `>` before it. */
export function logEvents(log: string[]): StreamEvents {
  return {
    onData: (chunk) => void log.push(`>${new TextDecoder().decode(chunk)}`),
    onEnd: () => void log.push(">end"),
    onDrain: () => void log.push(">drain"),
    onClose: (reset, alert) => void log.push(reset ? `>reset${alert}` : ">close"),
  };
}

/** A test for each row. */
export function testEachEvent<Parts extends { readonly log: string[] }>(
  name: string,
  table: string,
  { setUp, states, events, turn }: {
    readonly setUp: () => Parts;
    /** Bring the parts into that state. */
    readonly states: Readonly<Record<string, (parts: Parts) => unknown>>;
    readonly events: Readonly<Record<string, (parts: Parts) => unknown>>;
    /** Until all that follows has happened. */
    readonly turn: () => Promise<void>;
  },
): void {
  const [[, ...columns] = [], ...rows] = table.trim().split("\n").map((line) =>
    line.split("|").map((cell) => cell.trim())
  );
  for (const [event = "", ...wants] of rows) {
    test(`${name}: ${event} in each state`, async () => {
      for (const [index, state] of columns.entries()) {
        const parts = setUp();
        states[state]?.(parts);
        parts.log.length = 0;
        events[event]?.(parts);
        await turn();
        assert.equal(parts.log.join(" "), wants[index] ?? "", state);
      }
    });
  }
}
