/** Conditions that a plugin reports to operators: as events, and in the log. @module */

import type { Conditions } from "../base/mod.ts";
import type { Condition, Log } from "./api.ts";

const MAX_AT_ONCE = 100;
const SHOWN_CHARS = 300;

export class PluginConditions {
  readonly #plugin: string;
  readonly #listener: string;
  readonly #log: Log;
  readonly #conditions: Conditions | undefined;
  /** Each ends one condition. */
  readonly #ends = new Set<(ended?: string) => void>();

  constructor(
    at: { readonly plugin: string; readonly listener: string },
    log: Log,
    to?: Conditions,
  ) {
    this.#plugin = at.plugin;
    this.#listener = at.listener;
    this.#log = log;
    this.#conditions = to;
  }

  begin({ key, text, effect = "" }: Condition): (ended: string, refused?: number) => void {
    const conditions = this.#ends.size < MAX_AT_ONCE ? this.#conditions : undefined;
    const whole = `of ${this.#plugin} ${this.#listener} ${key}`;
    // One that begins again and again is counted, without lines.
    const isTold = conditions?.began(whole, this.#eventOf(text, effect)) ?? true;
    if (isTold) this.#log.warn(text, effect === "" ? {} : { effect });
    let isOver = false;
    const end = (ended?: string, refused?: number) => {
      if (isOver) return;
      isOver = true;
      this.#ends.delete(end);
      if (ended !== undefined && isTold) this.#log.info(ended, refused ? { refused } : {});
      conditions?.ended(whole, ended === undefined ? undefined : this.#eventOf(ended), refused);
    };
    if (conditions) this.#ends.add(end);
    return end;
  }

  #eventOf(text: string, effect?: string) {
    const shown = `${this.#plugin}: ${text}`.slice(0, SHOWN_CHARS);
    const severity = effect === undefined ? "info" : "warn";
    return {
      kind: "plugin",
      subject: this.#listener,
      text: shown,
      severity,
      isLogged: true,
      ...(effect && { effect: effect.slice(0, SHOWN_CHARS) }),
    } as const;
  }

  /** Ends those that are left, without an event. */
  close(): void {
    for (const end of this.#ends) end();
  }
}
