/** What is true now, and where it comes from. @module */
export * from "./snapshot.ts";
export * from "./update.ts";
