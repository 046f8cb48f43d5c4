/** Which endpoint next. Pure, given clock and random. @module */
export * from "./types.ts";
