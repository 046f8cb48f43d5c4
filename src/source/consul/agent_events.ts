/** Events of the agent, its leaf and its roots, as the secret store has them. @module */

import type { Clock, Log } from "../../base/mod.ts";
import type { SecretEvent } from "../../secrets/mod.ts";
import type { CredentialsPart } from "../../snapshot/mod.ts";

const EVENTS_LIMIT = 1_000;
const SOURCE = "consul";

export class AgentEvents {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #events: SecretEvent[] = [];
  #last: CredentialsPart | undefined;

  constructor(clock: Clock, log: Log) {
    this.#clock = clock;
    this.#log = log;
  }

  /** The last thousand and `others`, oldest first. */
  with(others: readonly SecretEvent[]): readonly SecretEvent[] {
    return [...this.#events, ...others].sort((a, b) => a.atMs - b.atMs);
  }

  published(credentials: CredentialsPart): void {
    const last = this.#last;
    if (credentials === last) return;
    this.#last = credentials;
    const kind = last ? "rotated" : "loaded";
    const { uri, serial, notBeforeMs, notAfterMs } = credentials;
    if (credentials.certPem !== last?.certPem) {
      const expires = new Date(notAfterMs).toISOString();
      const was = last ? `, was ${last.serial}` : "";
      const dates = `from ${new Date(notBeforeMs).toISOString()} to ${expires}`;
      const oldUri = last && last.uri !== uri ? last.uri : undefined;
      const ids = oldUri === undefined ? uri : `${uri}, was ${oldUri}`;
      this.#event("leaf", kind, `serial ${serial}${was}, ${dates}, ${ids}`);
      if (last) {
        const of = { secret: "leaf", source: SOURCE, uri, serial, expires };
        const fields = { ...of, old_serial: last.serial };
        if (oldUri === undefined) this.#log.info("certificate rotated", fields);
        else {
          const text = "certificate rotated with another identity";
          this.#log.warn(text, { ...fields, old_uri: oldUri });
        }
      }
    }
    const roots = credentials.rootPems;
    if (
      roots.length !== last?.rootPems.length || !roots.every((root) => last.rootPems.includes(root))
    ) {
      const was = last ? `, was ${last.rootPems.length}` : "";
      this.#event("roots", kind, `${roots.length} roots${was}`);
      if (last) this.#log.info("trust rotated", { secret: "roots", source: SOURCE });
    }
  }

  agent(kind: "unreachable" | "recovered", detail: string): void {
    this.#event("agent", kind, detail);
  }

  #event(name: string, kind: SecretEvent["kind"], detail: string): void {
    if (this.#events.length >= EVENTS_LIMIT) this.#events.shift();
    this.#events.push({ atMs: this.#clock.now(), kind, name, source: SOURCE, detail });
  }
}
