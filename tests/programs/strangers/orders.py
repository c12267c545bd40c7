"""A report of Django asks for the orders of each of 300 customers, and every customer has some."""

import django
from django.conf import settings
from django.db import connection, models

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
)
django.setup()


class Customer(models.Model):
    name = models.TextField()

    class Meta:
        app_label = "shop"


class Order(models.Model):
    customer = models.ForeignKey(Customer, models.CASCADE)
    price = models.IntegerField()

    class Meta:
        app_label = "shop"


with connection.schema_editor() as editor:
    editor.create_model(Customer)
    editor.create_model(Order)
Customer.objects.bulk_create(Customer(name=f"customer {i}") for i in range(300))
Order.objects.bulk_create(Order(customer=customer, price=i) for customer in Customer.objects.all() for i in range(4))
for _ in range(6):
    for customer in Customer.objects.all():
        sum(order.price for order in customer.order_set.all())  # FAULT
