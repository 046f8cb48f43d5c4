import { CONSUL } from "../kit/consul.ts";
import { changedRegistration } from "../stories/changed_registration.ts";

changedRegistration(CONSUL);
