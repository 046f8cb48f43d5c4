/**
 * Keeps the last events and the day's sums in `-state-dir`, for the next process of this proxy. A file that
 * cannot be used is named in the log, and another one begins; a failure of the disk never stops the proxy.
 *
 * @module
 */

import { join } from "node:path";
import * as v from "valibot";
import { type Clock, EVENT_KINDS, type Log, messageOf, type ProxyEvent } from "../base/mod.ts";
import { createStateFiles, LatestWriter, stateFileName, type StateFiles } from "../source/mod.ts";
import { parseJson } from "../wire/mod.ts";
import { StoredSums } from "./day_sums.ts";
import { type EventJournal, EVENTS_LIMIT } from "./journal.ts";

interface EventStoreOptions {
  readonly directory: string;
  /** The id of the proxy, for the name of the file. */
  readonly name: string;
  /** The same for all processes of this proxy, and for no other. */
  readonly purpose: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly journal: EventJournal;
  /** For tests; default the file system. */
  readonly files?: StateFiles;
}

/** Events that come within this time are written together. */
const GATHER_MS = 2_000;
const WRITE_INTERVAL_MS = 5_000;
/** A full journal of the longest texts is smaller. */
const SIZE_LIMIT_BYTES = 8 * 1_048_576;

const Text = v.pipe(v.string(), v.maxLength(1_000));
const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const WallMs = v.pipe(Count, v.maxValue(8.64e15));

const StoredEvent = v.object({
  seq: v.pipe(Count, v.maxValue(2 ** 50)),
  atMs: WallMs,
  // A later version may have others; they are left out.
  kind: v.pipe(v.string(), v.maxLength(40)),
  subject: Text,
  text: Text,
  effect: Text,
  severity: v.picklist(["info", "warn", "error"]),
});

const Stored = v.object({
  format: v.literal(1),
  /** As in {@link EventStoreOptions}. */
  purpose: v.string(),
  writtenMs: WallMs,
  /** The process had ended in order when this was written. */
  isEnd: v.boolean(),
  events: v.pipe(v.array(StoredEvent), v.maxLength(EVENTS_LIMIT)),
  day: StoredSums,
});
type Stored = v.InferOutput<typeof Stored>;

interface EarlierEnd {
  /** Continues the sentence about the start; `""`: nothing is known. */
  readonly text: string;
  readonly isCrash: boolean;
}

export class EventStore {
  readonly #options: EventStoreOptions;
  readonly #files: StateFiles;
  readonly #file: string;
  readonly #writer: LatestWriter<{ readonly isEnd: boolean }>;
  #leave: (() => void) | undefined;
  #failure: string | undefined;

  constructor(options: EventStoreOptions) {
    const { directory, name, purpose, clock, files } = this.#options = options;
    this.#files = files ?? createStateFiles();
    this.#file = join(directory, `${stateFileName(name, purpose)}.events`);
    this.#writer = new LatestWriter({
      clock,
      intervalMs: WRITE_INTERVAL_MS,
      gatherMs: GATHER_MS,
      write: ({ isEnd }) => this.#write(isEnd),
    });
  }

  /**
   * Puts the events of the earlier process into the journal, and stores the journal from now on. The earlier
   * process does not write any more. Never rejects.
   */
  async load(): Promise<EarlierEnd> {
    const { clock, journal } = this.#options;
    const stored = await this.#read();
    if (stored) {
      const { events, day } = stored;
      journal.restore({ events: events.filter(isKnown), day });
    }
    this.#leave = journal.follow(() => this.#writer.save({ isEnd: false }));
    if (!stored) return { text: "", isCrash: false };
    const at = new Date(Math.min(stored.writtenMs, clock.now())).toISOString();
    const text = stored.isEnd
      ? `; the earlier process ended at ${at}`
      : `; the earlier process did not end in order: it stored its last event at ${at}`;
    return { text, isCrash: !stored.isEnd };
  }

  /** Writes at once what waits: another process may read it soon. Never rejects. */
  flush(): Promise<void> {
    return this.#writer.flush();
  }

  /** Another process stores its events from now on. */
  leave(): void {
    this.#leave?.();
    this.#leave = undefined;
  }

  /** The process ends in order. Never rejects. */
  async close(): Promise<void> {
    if (this.#leave) this.#writer.save({ isEnd: true });
    this.leave();
    await this.#writer.close();
  }

  async #read(): Promise<Stored | undefined> {
    const { directory, purpose, log } = this.#options;
    try {
      const text = await this.#files.read(directory, this.#file, SIZE_LIMIT_BYTES);
      if (text === undefined) return undefined;
      const stored = v.safeParse(Stored, parsed(text));
      if (!stored.success) throw new Error("it is damaged, or of another version");
      if (stored.output.purpose !== purpose) throw new Error("it belongs to another proxy");
      return stored.output;
    } catch (error) {
      const fields = { file: this.#file, error: messageOf(error) };
      log.warn("stored events not used, others begin", fields);
      return undefined;
    }
  }

  async #write(isEnd: boolean): Promise<boolean> {
    const { directory, purpose, clock, log, journal } = this.#options;
    const nowMs = clock.now();
    const stored: Stored = {
      format: 1,
      purpose,
      writtenMs: nowMs,
      isEnd,
      events: [...journal.events],
      day: journal.day.stored(nowMs),
    };
    try {
      await this.#files.write(directory, this.#file, `${JSON.stringify(stored)}\n`);
    } catch (error) {
      const failure = messageOf(error);
      if (this.#failure !== failure) {
        log.warn("events not stored", { file: this.#file, error: failure });
      }
      this.#failure = failure;
      return false;
    }
    if (this.#failure !== undefined) log.info("events stored again", { file: this.#file });
    this.#failure = undefined;
    return true;
  }
}

/** `undefined` for what is no JSON. */
function parsed(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    // Its message quotes the text.
    return undefined;
  }
}

function isKnown(event: Stored["events"][number]): event is ProxyEvent {
  return EVENT_KINDS.some((kind) => kind === event.kind);
}
