/**
 * The changes of a secret as a store's journal gets them: through a subscription of its own, which
 * decides which events are changes.
 *
 * @module
 */

import { silentLog, Stats } from "../../../src/base/mod.ts";
import type { Secret, SecretEvents, SecretProvider, SecretRef } from "../../../src/secrets/mod.ts";
import { type Reported, SecretJournal } from "../../../src/secrets/store/journal.ts";
import { Subscription } from "../../../src/secrets/store/subscription.ts";
import { FakeClock } from "../clock/clock.ts";

type SecretChanges = Partial<SecretEvents>;

/** Follows `ref` as the store does; `news` is called after `watch` has returned. */
export function followChanges(
  provider: Pick<SecretProvider, "watch">,
  ref: SecretRef,
  news: SecretChanges,
): Subscription {
  return new Subscription({
    key: ref.name,
    ref,
    lease: { provider, release() {} },
    journal: new ChangesJournal(news),
    nowMs: 0,
    onChange() {},
  });
}

class ChangesJournal extends SecretJournal {
  readonly #news: SecretChanges;

  constructor(news: SecretChanges) {
    super({ clock: new FakeClock(), log: silentLog, stats: new Stats() });
    this.#news = news;
  }

  override changed(of: Reported, _old: Secret | undefined, secret: Secret): number {
    this.#news.onSecret?.(secret, of instanceof Subscription ? of.version : "");
    return 1;
  }

  override recovered(): void {
    this.#news.onRecovered?.();
  }

  override rejected(_of: Reported, reason: string): void {
    this.#news.onRejected?.(reason);
  }

  override unreachable(_of: Reported, reason: string): void {
    this.#news.onUnreachable?.(reason);
  }

  override removed(_of: Reported, { reason }: { readonly reason?: string }): void {
    this.#news.onRemoved?.(reason);
  }
}
