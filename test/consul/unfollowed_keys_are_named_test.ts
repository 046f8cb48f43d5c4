import { CONSUL } from "../kit/consul.ts";
import { unfollowedKeys } from "../stories/unfollowed_keys.ts";

unfollowedKeys(CONSUL);
