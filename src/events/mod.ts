/** Events: what has changed, and what that has ended. @module */
export type { DaySumsShown } from "./day_sums.ts";
export * from "./effect_watch.ts";
export * from "./event_store.ts";
export * from "./journal.ts";
export * from "./worker_conditions.ts";
export { firstSnapshotEvent, snapshotEvents } from "./snapshot_events.ts";
