/** Names the plugins that hold or end a data worker, and bars those that do it again. @module */

import type { Clock, Log, ReportEvent, Stats, Timer } from "../../base/mod.ts";
import type { HeldPlugin, HoldingPlugin, MarkedPlugin } from "../../plugin/mod.ts";

/** Time between two looks at the marks. */
const LOOK_MS = 500;
/** A hook that runs for so many looks in a row holds the worker. */
const HOOK_LOOKS = 4;
/** The same of a worker that answers nothing, while no hook is marked. */
const ANSWER_LOOKS = 20;
export const HOLD_LIMITS = { hook: HOOK_LOOKS, answer: ANSWER_LOOKS };
/** A worker is asked for an answer once in so many looks. */
export const BEAT_LOOKS = 4;
/** A plugin that has held workers so often is not called any more. */
const BARRED_AFTER = 2;
const UNTIL = "until its list, file or configuration changes";
/** A heap of a data worker above this is reported: without plugins it stays far below. */
const LARGE_HEAP_BYTES = 512 * 1024 * 1024;
/** A heap is large until it is below this part of the limit. */
const SMALL_SHARE = 0.75;
const MEGABYTE = 1024 * 1024;
/** Plugins that are remembered, the latest ones. */
const KNOWN_LIMIT = 64;

interface Known extends HeldPlugin {
  readonly times: number;
}

interface HeldPluginsOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
  readonly report: ReportEvent;
  /** A worker that is held can be ended. */
  readonly endsThreads: boolean;
  /** Looks at all workers. True: there is something to watch still. */
  readonly look: (turn: number) => boolean;
  readonly onChange: (held: readonly HeldPlugin[]) => void;
}

export class HeldPlugins {
  readonly endsThreads: boolean;
  readonly #options: HeldPluginsOptions;
  readonly #known = new Map<string, Known>();
  /** Data workers whose heap is large. */
  readonly #large = new Set<number>();
  #timer: Timer | undefined;
  #turn = 0;

  constructor(options: HeldPluginsOptions) {
    this.#options = options;
    this.endsThreads = options.endsThreads;
  }

  get list(): readonly HeldPlugin[] {
    return [...this.#known.values()].map(({ times: _, ...held }) => held);
  }

  /** Called when a plugin from a file is loaded; without one nothing runs here. */
  watch(): void {
    this.#timer ??= this.#options.clock.after(LOOK_MS, () => {
      this.#timer = undefined;
      if (this.#options.look(++this.#turn)) this.watch();
    });
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** The heap of a worker with these plugins. Which of them keeps memory cannot be told. */
  heap(worker: number, bytes: number, plugins: readonly MarkedPlugin[]): void {
    const { log, report } = this.#options;
    const wasLarge = this.#large.has(worker);
    const isLarge = bytes > LARGE_HEAP_BYTES * (wasLarge ? SMALL_SHARE : 1);
    if (isLarge === wasLarge) return;
    if (isLarge) this.#large.add(worker);
    else this.#large.delete(worker);
    const names = plugins.map(({ plugin, listener }) => `${plugin} of ${listener}`).join(", ");
    const megabytes = Math.round(bytes / MEGABYTE);
    const text = isLarge
      ? `heap of data worker ${worker} is large, a plugin may keep memory`
      : `heap of data worker ${worker} is not large any more`;
    log[isLarge ? "error" : "info"](text, { megabytes, plugins: names });
    report({
      kind: "plugin",
      subject: `worker ${worker}`,
      text: `${text}: ${megabytes} MB, with ${names || "no plugin from a file"}`,
      severity: isLarge ? "error" : "info",
      isLogged: true,
    });
  }

  /** @param isNew The worker was preparing a snapshot that is not in force. Returns the reason. */
  take(worker: number, holding: HoldingPlugin, isNew: boolean): string {
    const { clock, log, stats, report } = this.#options;
    const { plugin: { plugin, listener, at, key }, hook, isSetup, hasEnded } = holding;
    const verb = hasEnded ? "ended" : "held";
    const how = hasEnded ? endedBy(holding) : heldBy(holding);
    stats.counter(
      "plugin_held_worker_total",
      "Times that a call of the plugin did not return: it blocked a data worker or ended it",
      { plugin, listener },
    ).add(1);
    const times = (this.#known.get(key)?.times ?? 0) + 1;
    const scope = hook === "import" || hook === "config" || isSetup && isNew ? "create" : "calls";
    const barred = times < BARRED_AFTER ? "none" : scope;
    const last = `it ${verb} data worker ${worker} ${how}`;
    const reason = barred === "none" ? last : `${last}, and is not called any more, ${UNTIL}`;
    this.#known.delete(key);
    this.#known.set(key, { key, reason, atMs: clock.now(), barred, times });
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= KNOWN_LIMIT) break;
      this.#known.delete(oldest);
    }
    this.#options.onChange(this.list);
    const facts = { plugin, listener, at, hook, worker, times };
    if (!this.endsThreads && !hasEnded) {
      const text =
        `${plugin} of ${listener} holds data worker ${worker} ${how}, and this runtime ` +
        `cannot end it: restart the proxy`;
      log.error("a plugin holds a data worker, which cannot be ended: restart the proxy", facts);
      report({ kind: "plugin", subject: listener, text, severity: "error", isLogged: true });
    }
    if (barred !== "none") this.#barred(holding.plugin, barred, times);
    return `plugin ${plugin} of ${listener} (${at}) ${verb} it ${how}`;
  }

  #barred(
    { plugin, listener, at, onFailure }: MarkedPlugin,
    barred: "create" | "calls",
    times: number,
  ): void {
    const { log, report } = this.#options;
    log.error(`plugin is not called any more, ${UNTIL}`, { plugin, listener, at, times });
    const effect = barred === "create"
      ? "its configuration is refused"
      : onFailure === "refuse"
      ? "what it should judge is refused"
      : "requests go on without it";
    report({
      kind: "plugin",
      subject: listener,
      text:
        `${plugin} is not called any more, ${UNTIL}: it held or ended data workers ${times} times`,
      effect,
      severity: "error",
      isLogged: true,
    });
  }
}

function endedBy({ hook, isSure }: HoldingPlugin): string {
  return isSure ? `in ${hook}, as process.exit does` : `probably after ${hook}`;
}

function heldBy({ hook, isSure }: HoldingPlugin): string {
  const limitMs = (isSure ? HOOK_LOOKS : ANSWER_LOOKS) * LOOK_MS;
  const seconds = `for ${limitMs / 1_000} s`;
  return isSure ? `in ${hook} ${seconds}` : `${seconds}, probably after ${hook}`;
}
