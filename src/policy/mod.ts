/** May this source connect? Pure and synchronous. @module */
export * from "./authorize.ts";
export * from "./intention.ts";
