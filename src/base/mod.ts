/** Basics for every other directory: errors, time, randomness, logs, stats. No I/O. @module */
export { Bag, type BagMember, NO_PLACE } from "./bag.ts";
export * from "./clock.ts";
export * from "./deadlines.ts";
export * from "./duration.ts";
export * from "./errors.ts";
export * from "./event.ts";
export * from "./host.ts";
export * from "./issue_words.ts";
export * from "./log.ts";
export * from "./nearest.ts";
export * from "./stats.ts";
export * from "./traffic_row.ts";
export * from "./text_match.ts";
export * from "./unpinned.ts";
