-- A reset interval lasts 100 years at most; one that was set before there was a bound lasts as long.
UPDATE customers SET reset_interval = 3153600000.0 WHERE reset_interval > 3153600000.0;
