/** Listeners as readable stage lists. @module */
export * from "./view.ts";
