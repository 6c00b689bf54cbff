package mqtt_test

func child() {}
